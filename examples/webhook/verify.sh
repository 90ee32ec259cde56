#!/bin/sh
# Checks the signature of a message, whose body is on stdin:
#   verify.sh SECRET WEBHOOK_ID WEBHOOK_TIMESTAMP WEBHOOK_SIGNATURE < body
# It ends with 0 if one of the signatures is that of the secret. Look at the age of the
# timestamp, too. Needs openssl.
set -eu
key=$(printf %s "${1#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
want=v1,$({ printf '%s.%s.' "$2" "$3"; cat; } | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
for signature in $4; do
  [ "$signature" = "$want" ] && exit 0
done
echo "no signature is right" >&2
exit 1
