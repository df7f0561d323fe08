<?php

declare(strict_types=1);

namespace Coax;

/** The service does not accept the key, the signature or the clock. */
final class AuthenticationError extends CoaxError
{
}
