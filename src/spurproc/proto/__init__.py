"""What the processes of supervised steps share: identifiers, records on disk, messages on sockets; one codec."""
