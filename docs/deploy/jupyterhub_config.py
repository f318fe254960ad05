"""The parts of a JupyterHub's configuration that are about agents.

Put them into the Hub's own jupyterhub_config.py. jupyter-collaboration-mcp is installed in the
environment of users' servers and, for the service, in that of the Hub.
"""

c = get_config()  # noqa: F821

# What a token may allow agents: each level includes the lower ones.
LEVELS = ["read", "write", "execute", "admin"]
PREFIX = "custom:jupyter-collaboration-mcp:"
c.JupyterHub.custom_scopes = {
    PREFIX + level: {
        "description": f"What agents may do: {level}",
        "subscopes": [PREFIX + lower for lower in LEVELS[:number]],
    }
    for number, level in enumerate(LEVELS)
}

c.JupyterHub.load_roles = [
    # A person can give their agents at most this: "self" has all that is the person's own.
    {"name": "user", "scopes": ["self", PREFIX + "execute"]},
    # Two people who work in the server of a third account.
    {
        "name": "team-members",
        "users": ["ana", "ben"],
        "scopes": ["access:servers!user=team", "read:users:name!user=team"],
    },
]

# One URL for the agents of all users.
c.JupyterHub.services = [
    {
        "name": "mcp",
        "url": "http://127.0.0.1:10101",
        "command": [
            "jupyter-collaboration-mcp",
            "hub-service",
            "--hub-proxy=http://127.0.0.1:8000/",
        ],
    }
]

# Otherwise files in a user's ~/.jupyter override the limits in /etc/jupyter.
c.Spawner.disable_user_config = True

# Servers take the Hub's word for a token for so many seconds: a token that is revoked counts
# that long at /user/NAME/mcp. (At the service it is a second.)
c.Spawner.args = ["--HubOAuth.cache_max_age=60"]
