<?php

declare(strict_types=1);

namespace Coax\Internal;

/**
 * The pauses between attempts and polls, in seconds of the monotonic clock.
 *
 * @internal
 */
final class Pause
{
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    /** Returns a random number from 0 to 1. */
    public static function random(): float
    {
        return random_int(0, 1_000_000) / 1_000_000;
    }

    /** Returns the pause after the n-th attempt or poll: it doubles, and has random jitter. */
    public static function growing(Options $options, int $n): float
    {
        $longest = min($options->pause * 2 ** ($n - 1), $options->maxPause);
        return $longest / 2 * (1 + self::random());
    }

    /** Whether a pause ends before the deadline. */
    public static function fits(float $pause, float $deadline): bool
    {
        return self::now() + $pause < $deadline;
    }

    /** Waits; returns false, at once, if the pause would go beyond the deadline. */
    public static function wait(float $pause, float $deadline): bool
    {
        if (!self::fits($pause, $deadline)) {
            return false;
        }
        $until = self::now() + $pause;
        // A signal ends usleep early.
        while (($left = $until - self::now()) > 0) {
            usleep((int) ceil(min($left, 1.0) * 1e6));
        }
        return true;
    }
}
