"""Every sentence of the commands: those of :mod:`odmtool.messages`, and what only they say.

The latter name options as they are typed.
"""

from odmtool.messages import *  # isort: skip
from odmtool.cli.messages.confusion import *
from odmtool.cli.messages.large import *
from odmtool.cli.messages.looking import *
from odmtool.cli.messages.margins import *
from odmtool.cli.messages.options import *
from odmtool.cli.messages.prediction import *
from odmtool.cli.messages.probability import *
from odmtool.cli.messages.process import *
from odmtool.cli.messages.scaling import *
from odmtool.cli.messages.search import *
from odmtool.cli.messages.stock import *
from odmtool.cli.messages.training import *
