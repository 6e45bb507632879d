#!/bin/bash
# Its own EXIT trap, and a trailing exec that throws the trap away: what a wrapper shell would lose, the kernel still knows.
trap 'echo "trap saw $?"' EXIT
echo "about to become another program"
exec sh -c 'exit 7'
