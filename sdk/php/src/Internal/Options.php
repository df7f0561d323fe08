<?php

declare(strict_types=1);

namespace Coax\Internal;

/**
 * The options of a client, checked. BEHAVIOUR.md describes them.
 *
 * @internal
 */
final class Options
{
    public readonly float $connectTimeout;
    public readonly float $timeout;
    public readonly float $totalTimeout;
    public readonly int $attempts;
    public readonly float $pause;
    public readonly float $maxPause;
    public readonly float $maxRetryAfter;
    public readonly bool $waitUntilSettled;
    public readonly ?\Closure $onAttempt;
    public readonly ?\Closure $clock;

    /** @param array<string, mixed> $given */
    public function __construct(array $given)
    {
        $defaults = [
            'connect_timeout' => 10.0,
            'timeout' => 60.0,
            'total_timeout' => 180.0,
            'attempts' => 6,
            'pause' => 0.5,
            'max_pause' => 30.0,
            'max_retry_after' => 120.0,
            'wait_until_settled' => true,
            'on_attempt' => null,
            'clock' => null,
        ];
        $unknown = array_diff(array_keys($given), array_keys($defaults));
        if ($unknown !== []) {
            throw new \InvalidArgumentException('There is no option ' . implode(', ', $unknown) . '.');
        }
        $options = $given + $defaults;
        $this->connectTimeout = self::seconds($options, 'connect_timeout', 0.001);
        $this->timeout = self::seconds($options, 'timeout', 0.001);
        $this->totalTimeout = self::seconds($options, 'total_timeout', 0.001);
        $this->pause = self::seconds($options, 'pause', 0);
        $this->maxPause = self::seconds($options, 'max_pause', 0);
        $this->maxRetryAfter = self::seconds($options, 'max_retry_after', 0);
        if (!is_int($options['attempts']) || $options['attempts'] < 1) {
            throw new \InvalidArgumentException('The option attempts has to be an integer from 1.');
        }
        $this->attempts = $options['attempts'];
        if (!is_bool($options['wait_until_settled'])) {
            throw new \InvalidArgumentException('The option wait_until_settled has to be true or false.');
        }
        $this->waitUntilSettled = $options['wait_until_settled'];
        $this->onAttempt = self::function($options, 'on_attempt');
        $this->clock = self::function($options, 'clock');
    }

    /** @param array<string, mixed> $options */
    private static function seconds(array $options, string $name, float $least): float
    {
        $seconds = $options[$name];
        if ((is_int($seconds) || is_float($seconds)) && $seconds >= $least && $seconds <= 1e6) {
            return (float) $seconds;
        }
        $range = $least > 0 ? 'above zero' : 'from zero';
        throw new \InvalidArgumentException("The option $name has to be a number of seconds $range, at most a million.");
    }

    /** @param array<string, mixed> $options */
    private static function function(array $options, string $name): ?\Closure
    {
        if ($options[$name] !== null && !is_callable($options[$name])) {
            throw new \InvalidArgumentException("The option $name has to be a function.");
        }
        return $options[$name] === null ? null : \Closure::fromCallable($options[$name]);
    }
}
