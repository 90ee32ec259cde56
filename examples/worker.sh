#!/bin/sh
# A worker in POSIX shell: it runs the steps of one handler, one after another, and needs
# curl and nothing else.
#
#   examples/worker.sh http://127.0.0.1:7295 shout ./shout.sh
#
# The command gets the step as JSON on its standard input, as docs/workers.md describes it,
# and prints the output as JSON. If it fails, the step has failed.
set -u
[ $# -ge 3 ] || { echo "usage: $0 URL HANDLER COMMAND [ARGUMENT...]" >&2; exit 2; }
url=$1 handler=$2
shift 2

post() { # path body: prints the answer, and its status on a line of its own
	curl -sS --max-time 60 -H 'Content-Type: application/json' -w '\n%{http_code}' -d "$2" "$url/api/$1"
}
register() {
	body='{"name":"worker.sh","handlers":["'$handler'"],"silence_ms":60000}'
	until id=$(post workers "$body" | sed -n 's/.*"id":"\(w_[0-9a-f]*\)".*/\1/p') && [ -n "$id" ]; do sleep 1; done
	turn=0 report=
	echo "worker $id serves $handler" >&2
}
beat() { while sleep 15; do post "workers/$id/heartbeat" '{}' >/dev/null; done; }

register
beat & beats=$!
stop=
trap 'stop=1' INT TERM
while [ -z "$stop" ] || [ -n "$report" ]; do
	free=1 turn=$((turn + 1))
	[ -z "$stop" ] || free=0
	# It holds nothing by now: what it has been given beside that, it never got.
	answer=$(post "workers/$id/exchange" '{"turn":'$turn',"free":'$free',"wait_ms":5000,"holding":[],"reports":['"$report"']}')
	case ${answer##*
} in
	200) report= ;;
	400 | 422) report='{"step_id":"'$step'","claim":'$claim',"outcome":"fail","error":{"message":"its output is not JSON"}}'; continue ;;
	409) turn=$(printf '%s' "$answer" | sed -n 's/.*"current":\([0-9]*\).*/\1/p'); continue ;;
	404 | 410) kill $beats; register; beat & beats=$!; continue ;;
	*) turn=$((turn - 1)); sleep 1; continue ;; # the answer may be lost: the same again
	esac
	found=$(printf '%s' "$answer" | sed -n 's/^{"state":"[A-Z]*","steps":\[{"step_id":"\(st_[0-9a-f]*\)","claim":\([0-9]*\),.*/\1 \2/p')
	[ -n "$found" ] || continue
	step=${found% *} claim=${found#* }
	report='{"step_id":"'$step'","claim":'$claim',"outcome":'
	if output=$(printf '%s\n' "$answer" | sed '$d' | "$@"); then
		report=$report'"complete","output":'${output:-null}'}'
	else
		report=$report'"fail","error":{"class":"exit","message":"the command has failed"}}'
	fi
done
kill $beats
post "workers/$id/complete" '{"reason":"drained"}' >/dev/null
