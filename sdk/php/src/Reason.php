<?php

declare(strict_types=1);

namespace Coax;

/**
 * Why an operation failed. Nothing was charged, and the key is used up: a new attempt is
 * a new action with a new key. New reasons may be added within version 1.
 */
final class Reason
{
    /** The provider refused it; see provider_message. */
    public const PROVIDER_REJECTED = 'PROVIDER_REJECTED';
    /** The provider could not be reached, and was sent nothing. */
    public const PROVIDER_UNREACHABLE = 'PROVIDER_UNREACHABLE';
    /** The outcome was unknown, and the provider then stated that it had not carried it out. */
    public const NOT_CONFIRMED = 'NOT_CONFIRMED';
    /** The outcome was unknown, and staff found that it had not been carried out. */
    public const REJECTED_BY_REVIEW = 'REJECTED_BY_REVIEW';
}
