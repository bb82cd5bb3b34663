"""The budget service without HTTP: people, tokens, data sets, allowances, approvals, jobs and the log. `Service` is the API."""
