"""Every sentence a user sees, in one place; one file for each occasion.

Lower layers raise errors made with these functions, the commands print them;
neither writes a sentence of its own. A sentence names the file, the line and
the token where there is one, and says what to do.
"""

from odmtool.messages.confusion import *
from odmtool.messages.data import *
from odmtool.messages.files import *
from odmtool.messages.margins import *
from odmtool.messages.models import *
from odmtool.messages.options import *
from odmtool.messages.prediction import *
from odmtool.messages.probability import *
from odmtool.messages.process import *
from odmtool.messages.scalable import *
from odmtool.messages.scaling import *
from odmtool.messages.training import *
from odmtool.messages.words import *
