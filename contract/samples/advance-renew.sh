body='{"subscriber_id": "100001", "plan_id": "FAMILY-3"}'
timestamp=$(date +%s)
nonce=$(openssl rand -hex 16)
hash=$(printf %s "$body" | openssl dgst -sha256 -r | cut -d ' ' -f 1)
signature=$(printf 'POST\n/api/v1/advance-renew\n\n%s\n%s\n%s' "$timestamp" "$nonce" "$hash" |
	openssl dgst -sha256 -hmac "$COAX_API_SECRET" -r | cut -d ' ' -f 1)
curl --cacert "$COAX_CA_CERT" "$COAX_BASE_URL/advance-renew" \
	-H "X-API-Key: $COAX_API_KEY" -H "X-Timestamp: $timestamp" -H "X-Nonce: $nonce" -H "X-Signature: $signature" \
	-H 'Idempotency-Key: order-5003' -H 'Content-Type: application/json' --data-binary "$body"
