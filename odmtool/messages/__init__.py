"""Every sentence that the package says, in one place; one file for each occasion.

Lower layers raise errors made with these functions; none writes a sentence of its own. A
sentence names the file, the line and the token where there is one, and says what to do. It
knows no options: how it names parameters is in :mod:`odmtool.messages.words`. What only the
commands say stands in :mod:`odmtool.cli.messages`.
"""

from odmtool.messages.data import *
from odmtool.messages.estimators import *
from odmtool.messages.files import *
from odmtool.messages.margins import *
from odmtool.messages.models import *
from odmtool.messages.parameters import *
from odmtool.messages.places import *
from odmtool.messages.refusals import *
from odmtool.messages.scaling import *
from odmtool.messages.search import *
from odmtool.messages.solvers import *
from odmtool.messages.words import *
