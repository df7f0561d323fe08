<?php

declare(strict_types=1);

namespace Coax\Internal;

/**
 * Sends a request once, with curl.
 *
 * Every attempt has its own connection. If a kept connection turns out to be closed, curl
 * sends the request again by itself, with the same nonce, and cannot be told not to. The
 * handle is kept, so that a further connection resumes the TLS session.
 *
 * @internal
 */
final class Transport
{
    /** The service's answers are far smaller. */
    private const MAX_ANSWER = 8 << 20;

    /** Of curl: the peer's certificate (51, 60), the CA file (77), the issuer (83). */
    private const CERTIFICATE_ERRORS = [51, 60, 77, 83];

    private ?\CurlHandle $handle = null;

    /**
     * @param string $caFile the trusted certificates; empty for the system's
     * @param bool $loopback requests to loopback never use a proxy of the environment
     */
    public function __construct(
        private readonly string $caFile,
        private readonly bool $loopback,
        private readonly float $connectTimeout,
    ) {
    }

    /**
     * @param 'GET'|'POST' $method
     * @param array<string, string> $headers
     */
    public function send(
        string $method,
        string $url,
        #[\SensitiveParameter] array $headers,
        #[\SensitiveParameter] string $body,
        float $timeout,
    ): Reply {
        $received = '';
        $receivedHeaders = [];
        $options = [
            CURLOPT_URL => $url,
            CURLOPT_HTTPHEADER => array_map(
                static fn (string $name, string $value): string => "$name: $value",
                array_keys($headers),
                $headers,
            ),
            CURLOPT_PROTOCOLS => CURLPROTO_HTTPS | ($this->loopback ? CURLPROTO_HTTP : 0),
            CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_1_1,
            CURLOPT_FOLLOWLOCATION => false,
            CURLOPT_FRESH_CONNECT => true,
            CURLOPT_FORBID_REUSE => true,
            CURLOPT_SSL_VERIFYPEER => true,
            CURLOPT_SSL_VERIFYHOST => 2,
            CURLOPT_SSLVERSION => CURL_SSLVERSION_TLSv1_2,
            CURLOPT_NOSIGNAL => true,
            CURLOPT_CONNECTTIMEOUT_MS => self::milliseconds(min($this->connectTimeout, $timeout)),
            CURLOPT_TIMEOUT_MS => self::milliseconds($timeout),
            CURLOPT_SUPPRESS_CONNECT_HEADERS => true,
            CURLOPT_HEADERFUNCTION => static function ($handle, string $line) use (&$receivedHeaders): int {
                if (str_starts_with($line, 'HTTP/')) {
                    $receivedHeaders = []; // those of an interim answer do not count
                }
                [$name, $value] = explode(':', $line, 2) + [1 => ''];
                $receivedHeaders[strtolower(trim($name))] ??= trim($value);
                return strlen($line);
            },
            CURLOPT_WRITEFUNCTION => static function ($handle, string $part) use (&$received): int {
                $received .= $part;
                return strlen($received) > self::MAX_ANSWER ? 0 : strlen($part); // 0 ends the transfer
            },
        ];
        if ($method === 'POST') {
            $options[CURLOPT_POST] = true;
            $options[CURLOPT_POSTFIELDS] = $body;
        }
        if ($this->loopback) {
            $options[CURLOPT_PROXY] = '';
        }
        if ($this->caFile !== '') {
            $options[CURLOPT_CAINFO] = $this->caFile;
            $options[CURLOPT_CAPATH] = __DIR__; // has no certificates; otherwise curl adds the system's
        }

        $this->handle ??= curl_init();
        curl_reset($this->handle);
        curl_setopt_array($this->handle, $options);
        $done = curl_exec($this->handle);
        $status = curl_getinfo($this->handle, CURLINFO_RESPONSE_CODE);
        if ($done || strlen($received) > self::MAX_ANSWER) {
            return new Reply($status, $receivedHeaders, $done ? $received : '');
        }
        $error = curl_errno($this->handle);
        $connected = curl_getinfo($this->handle, str_starts_with($url, 'https:') ? CURLINFO_APPCONNECT_TIME : CURLINFO_CONNECT_TIME);
        return new Reply(
            error: curl_error($this->handle) ?: curl_strerror($error) ?: "curl error $error",
            notSent: $connected == 0,
            untrusted: in_array($error, self::CERTIFICATE_ERRORS, true),
        );
    }

    /** To curl, 0 is no limit. */
    private static function milliseconds(float $seconds): int
    {
        return max(1, (int) ceil($seconds * 1000));
    }
}
