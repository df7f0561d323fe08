<?php

declare(strict_types=1);

namespace Coax;

/**
 * The plans for sale. It may be cached for about five minutes; an operation costs the
 * price at the time of the operation.
 *
 * @property-read string $provider
 * @property-read string $currency
 * @property-read list<Result> $plans id, name, description, price (Amount), duration (months of 30 days),
 *                                    type (standard or combo)
 */
final class Catalogue extends Result
{
}
