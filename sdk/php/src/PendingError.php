<?php

declare(strict_types=1);

namespace Coax;

/** The outcome is not known yet: call again later with the same key, or use awaitSettled. */
final class PendingError extends CoaxError
{
}
