<?php

declare(strict_types=1);

namespace Coax;

/** Too many requests; see retry_after. */
final class RateLimitError extends CoaxError
{
}
