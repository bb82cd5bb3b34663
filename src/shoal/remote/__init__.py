"""A session over HTTP: the same face, types and errors as a local one."""

from shoal.remote.session import ApprovalWarning, Job, RemoteExplanation, RemoteSession, is_remote

__all__ = ["ApprovalWarning", "Job", "RemoteExplanation", "RemoteSession", "is_remote"]
