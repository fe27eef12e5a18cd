"""The watches: kopf, and only kopf."""
