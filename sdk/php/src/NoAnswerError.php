<?php

declare(strict_types=1);

namespace Coax;

/** No answer of the service came. */
final class NoAnswerError extends CoaxError
{
}
