"""One generation of an app at work: the epoch protocol, what decides the epochs, and what keeps going when things die."""
