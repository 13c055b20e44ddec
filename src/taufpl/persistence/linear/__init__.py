"""Linear models as weights of the columns of X: JSON and SQL."""

from taufpl.persistence.linear._json import to_json
from taufpl.persistence.linear._sql import to_sql

__all__ = ["to_json", "to_sql"]
