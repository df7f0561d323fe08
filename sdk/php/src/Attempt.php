<?php

declare(strict_types=1);

namespace Coax;

/**
 * One attempt of a call, for logs and metrics. It holds neither the query, which may
 * contain a customer's number, nor the body.
 */
final class Attempt
{
    /**
     * @param string $call the method and the endpoint, such as "POST renew"
     * @param int $number counts the attempts of a call from 1
     * @param int $status the HTTP status, 0 without an answer
     * @param string $code the service's code, empty if the answer is not the service's
     * @param float $duration in seconds
     * @param ?float $pause seconds until the next attempt, null after the last
     * @param string $error why no valid answer came
     */
    public function __construct(
        public readonly string $call,
        public readonly int $number,
        public readonly int $status,
        public readonly string $code,
        public readonly string $request_id,
        public readonly float $duration,
        public readonly ?float $pause,
        public readonly string $error,
    ) {
    }
}
