<?php

declare(strict_types=1);

namespace Coax;

/**
 * The operator's wallet.
 *
 * @property-read int $lco_id
 * @property-read Amount $wallet_balance
 * @property-read string $currency
 * @property-read bool $low_balance
 * @property-read string $as_of
 * @property-read string $note
 */
final class Balance extends Result
{
}
