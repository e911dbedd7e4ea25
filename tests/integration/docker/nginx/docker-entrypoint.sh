#!/bin/sh
# Sets nginx up from the environment and becomes the command, as the entrypoint of the official image does.
set -e
echo "listen 127.0.0.1:$NGINX_PORT;" >/dev/shm/listen.conf
exec "$@"
