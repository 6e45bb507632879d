#!/bin/bash
# Ignores SIGTERM, and so does its child: only SIGKILL ends it.
trap '' TERM
echo "not listening to SIGTERM"
sleep 600 &
wait
