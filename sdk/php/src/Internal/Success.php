<?php

declare(strict_types=1);

namespace Coax\Internal;

use Coax\Result;

/**
 * What a call got, with the id of its request.
 *
 * @internal
 * @template-covariant T of Result
 */
final class Success
{
    /** @param T $result */
    public function __construct(
        public readonly Result $result,
        public readonly string $code,
        public readonly string $requestId,
    ) {
    }
}
