body='{"full_name": "Asha Rao", "mobile": "9812345678", "plan_id": "BASIC-1", "subscriber_id": "100001"}'
timestamp=$(date +%s)
nonce=$(openssl rand -hex 16)
hash=$(printf %s "$body" | openssl dgst -sha256 -r | cut -d ' ' -f 1)
signature=$(printf 'POST\n/api/v1/activate\n\n%s\n%s\n%s' "$timestamp" "$nonce" "$hash" |
	openssl dgst -sha256 -hmac "$COAX_API_SECRET" -r | cut -d ' ' -f 1)
curl --cacert "$COAX_CA_CERT" "$COAX_BASE_URL/activate" \
	-H "X-API-Key: $COAX_API_KEY" -H "X-Timestamp: $timestamp" -H "X-Nonce: $nonce" -H "X-Signature: $signature" \
	-H 'Idempotency-Key: order-5001' -H 'Content-Type: application/json' --data-binary "$body"
