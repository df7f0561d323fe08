<?php

declare(strict_types=1);

namespace Coax;

/** The states of an operation. Success and failed are final. */
final class Status
{
    public const PROCESSING = 'processing';
    public const SUCCESS = 'success';
    public const FAILED = 'failed';
    public const NEEDS_REVIEW = 'needs_review';
}
