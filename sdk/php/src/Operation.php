<?php

declare(strict_types=1);

namespace Coax;

/**
 * An activation, a renewal or an advance renewal.
 *
 * @property-read string $transaction_id the service's id; store it with the order
 * @property-read string $idempotency_key
 * @property-read string $operation activate, renew or advance_renew
 * @property-read string $status see Status
 * @property-read string $channel api, or web for operations in the operator's panel
 * @property-read Result $customer subscriber_id, name, mobile; password only in the first answer to an
 *                                 activation, if the service generated it
 * @property-read string $provider
 * @property-read ?string $provider_transaction_id
 * @property-read Result $plan id, name, duration_months
 * @property-read Amount $amount the catalogue's price; wallet says whether it was charged
 * @property-read string $currency
 * @property-read Result $expiry previous, new, start_date: texts in Indian time, or null
 * @property-read Result $wallet before, after, charged (amounts), refunded, held (booleans)
 * @property-read list<string> $warnings see Warning
 * @property-read string $created_at
 * @property-read ?string $completed_at
 * @property-read ?string $provider_message why it failed, for people
 * @property-read ?string $reason why it failed; see Reason
 * @property-read ?string $result_code set by look-ups: the code that a repeated request would get now
 * @property-read ?string $result_message set by look-ups
 * @property-read bool $replayed whether this is the result of an earlier request with the same key
 */
final class Operation extends Result
{
    /** Whether the status is final. */
    public function isSettled(): bool
    {
        return $this->status === Status::SUCCESS || $this->status === Status::FAILED;
    }
}
