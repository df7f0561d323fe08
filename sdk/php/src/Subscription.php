<?php

declare(strict_types=1);

namespace Coax;

/**
 * A subscriber with the current plan.
 *
 * @property-read Result $customer subscriber_id, name, mobile, email, connection_type
 * @property-read string $provider
 * @property-read Result $plan id, name
 * @property-read string $status active, expired, or pending while the activation is not settled
 * @property-read bool $active
 * @property-read ?string $expiry_date
 * @property-read int $days_remaining
 * @property-read string $created_at
 * @property-read ?string $renewed_at
 * @property-read ?string $last_provider_transaction
 * @property-read list<Result> $pending_operations transaction_id, idempotency_key, operation, status, plan,
 *                                                 amount, created_at
 */
final class Subscription extends Result
{
}
