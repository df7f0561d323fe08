<?php

declare(strict_types=1);

namespace Coax;

/** The wallet has too little: see shortfall. The key is still free: top up and call again with it. */
final class InsufficientBalanceError extends CoaxError
{
}
