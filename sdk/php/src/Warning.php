<?php

declare(strict_types=1);

namespace Coax;

/** The warnings of a successful operation. New warnings may be added within version 1. */
final class Warning
{
    /** The main plan of a combo is active and its add-on is not yet; the service retries the add-on. */
    public const COMBO_SECONDARY_FAILED = 'COMBO_SECONDARY_FAILED';
}
