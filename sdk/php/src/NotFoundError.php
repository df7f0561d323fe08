<?php

declare(strict_types=1);

namespace Coax;

/** The operator has no such subscriber or transaction. */
final class NotFoundError extends CoaxError
{
}
