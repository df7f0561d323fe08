<?php

declare(strict_types=1);

namespace Coax;

/** The operation was not carried out, and nothing was charged; the key is used up. See operation. */
final class ProviderError extends CoaxError
{
}
