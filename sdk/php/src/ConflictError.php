<?php

declare(strict_types=1);

namespace Coax;

/** The request contradicts what exists, such as a subscriber with this number. */
final class ConflictError extends CoaxError
{
}
