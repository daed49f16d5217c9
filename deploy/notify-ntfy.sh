#!/bin/sh
# Tells a phone through ntfy that something waits for its owner: for
# SALLYPORT_NOTIFY (docs/owner.md). TOPIC is https://ntfy.example/RANDOM, better of a
# server of your own. The push holds the tool's name and nothing else.
event=$(cat)
case $event in *'"kind":"waiting"'*) ;; *) exit 0 ;; esac
tool=$(printf %s "$event" | sed -n 's/.*"tool":"\([A-Za-z0-9_.-]*\)".*/\1/p')
printf '%s waits for you' "${tool:-A call}" |
	curl -fsS --max-time 20 -H 'Title: Sallyport' --data-binary @- "${TOPIC:?TOPIC must be the address of an ntfy topic}"
