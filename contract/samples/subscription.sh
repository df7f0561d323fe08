timestamp=$(date +%s)
nonce=$(openssl rand -hex 16)
hash=$(printf '' | openssl dgst -sha256 -r | cut -d ' ' -f 1)
signature=$(printf 'GET\n/api/v1/subscription\nmobile=9812345678\n%s\n%s\n%s' "$timestamp" "$nonce" "$hash" |
	openssl dgst -sha256 -hmac "$COAX_API_SECRET" -r | cut -d ' ' -f 1)
curl --cacert "$COAX_CA_CERT" "$COAX_BASE_URL/subscription?mobile=9812345678" \
	-H "X-API-Key: $COAX_API_KEY" -H "X-Timestamp: $timestamp" -H "X-Nonce: $nonce" -H "X-Signature: $signature"
