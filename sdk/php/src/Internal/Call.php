<?php

declare(strict_types=1);

namespace Coax\Internal;

use Coax\Result;

/**
 * One API call, which may take several attempts.
 *
 * @internal
 */
final class Call
{
    /**
     * @param 'GET'|'POST' $method
     * @param string $key the idempotency key of an operation; empty for look-ups
     * @param class-string<Result> $class of the result
     * @param \Closure(Result): bool $complete whether a result is the requested one and complete; an
     *                                         answer with another counts as no answer
     */
    public function __construct(
        public readonly string $method,
        public readonly string $endpoint,
        public readonly string $query,
        public readonly string $key,
        public readonly Secret $body,
        public readonly string $class,
        public readonly \Closure $complete,
    ) {
    }

    /**
     * @param array<string, string> $query
     * @param class-string<Result> $class
     */
    public static function lookUp(string $endpoint, array $query, string $class, \Closure $complete): self
    {
        $encoded = http_build_query($query, '', '&', PHP_QUERY_RFC3986);
        return new self('GET', $endpoint, $encoded, '', new Secret(''), $class, $complete);
    }

    /** Omits the query, which may contain a customer's number. */
    public function name(): string
    {
        return "$this->method $this->endpoint";
    }
}
