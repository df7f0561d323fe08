<?php

declare(strict_types=1);

namespace Coax;

/** The request is invalid: change it, or the code that makes it. */
final class InvalidRequestError extends CoaxError
{
}
