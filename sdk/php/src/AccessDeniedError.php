<?php

declare(strict_types=1);

namespace Coax;

/** The operator's account, the key or the address is not allowed to do this. */
final class AccessDeniedError extends CoaxError
{
}
