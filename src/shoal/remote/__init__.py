"""A session over HTTP: the same face, types and errors as a local one."""

from shoal.remote.session import Job, RemoteExplanation, RemoteSession, is_remote

__all__ = ["Job", "RemoteExplanation", "RemoteSession", "is_remote"]
