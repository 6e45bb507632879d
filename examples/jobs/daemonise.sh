#!/bin/sh
# Daemonises a grandchild (own session, parent gone) and ends well. The daemon is still part of the job.
(setsid sh -c 'echo "daemon $$ is up"; exec sleep 600' &)
echo "leader done"
