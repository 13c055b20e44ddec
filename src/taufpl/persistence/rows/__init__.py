"""The rows that a model was trained on: a fingerprint of the table, and a compact record of its rows."""

from taufpl.persistence.rows._fingerprint import fingerprint
from taufpl.persistence.rows._seen_rows import Freshness, SeenRows

__all__ = ["Freshness", "SeenRows", "fingerprint"]
