<?php

declare(strict_types=1);

namespace Coax\Internal;

/**
 * An HTTP response, or why there is none.
 *
 * @internal
 */
final class Reply
{
    /**
     * @param array<string, string> $headers by lower-case name
     * @param bool $notSent the request was certainly not sent: no connection was made
     * @param bool $untrusted the certificate did not verify
     */
    public function __construct(
        public readonly int $status = 0,
        public readonly array $headers = [],
        #[\SensitiveParameter] public readonly string $body = '',
        public readonly string $error = '',
        public readonly bool $notSent = false,
        public readonly bool $untrusted = false,
    ) {
    }

    public function header(string $name): string
    {
        return $this->headers[$name] ?? '';
    }
}
