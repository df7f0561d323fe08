<?php

declare(strict_types=1);

namespace Coax;

/** The service cannot do this now: call again later with the same key. */
final class UnavailableError extends CoaxError
{
}
