"""A session over HTTP: the same face, types and errors as a local one."""

from shoal.remote.session import WHAT_TO_CONNECT, ApprovalWarning, Job, RemoteExplanation, RemoteSession, is_remote

__all__ = ["WHAT_TO_CONNECT", "ApprovalWarning", "Job", "RemoteExplanation", "RemoteSession", "is_remote"]
