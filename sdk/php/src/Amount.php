<?php

declare(strict_types=1);

namespace Coax;

/**
 * A sum of money in paise, exact. It is printed, and encoded in JSON, as rupees with two
 * decimals: "199.00". Amounts can be compared with ==, < and >.
 */
final class Amount implements \JsonSerializable, \Stringable
{
    private function __construct(public readonly int $paise)
    {
    }

    public static function ofPaise(int $paise): self
    {
        return new self($paise);
    }

    /**
     * Reads rupees such as "199.00", without a float, which would not be exact.
     *
     * @throws \InvalidArgumentException if the text is no amount, or too large
     */
    public static function parse(string $rupees): self
    {
        if (!preg_match('/^(-?)([0-9]+)(?:\.([0-9]{1,2}))?$/D', $rupees, $part)) {
            throw new \InvalidArgumentException('An amount is written as rupees with at most two decimals, such as 199.00.');
        }
        $digits = ltrim($part[2] . str_pad($part[3] ?? '', 2, '0'), '0');
        if ($digits === '') {
            return new self(0);
        }
        $paise = (int) ($part[1] . $digits); // the largest or smallest integer if it does not fit
        if ((string) $paise !== $part[1] . $digits) {
            throw new \InvalidArgumentException('The amount is too large.');
        }
        return new self($paise);
    }

    /** @throws \OverflowException */
    public function add(self $other): self
    {
        return self::exactly($this->paise + $other->paise);
    }

    /** @throws \OverflowException */
    public function subtract(self $other): self
    {
        return self::exactly($this->paise - $other->paise);
    }

    /** Returns -1, 0 or 1 if this amount is less than, equal to or more than the other. */
    public function compare(self $other): int
    {
        return $this->paise <=> $other->paise;
    }

    public function equals(self $other): bool
    {
        return $this->paise === $other->paise;
    }

    public function __toString(): string
    {
        // By text: abs() of the smallest integer is a float.
        $digits = str_pad(ltrim((string) $this->paise, '-'), 3, '0', STR_PAD_LEFT);
        return ($this->paise < 0 ? '-' : '') . substr($digits, 0, -2) . '.' . substr($digits, -2);
    }

    public function jsonSerialize(): string
    {
        return (string) $this;
    }

    /** PHP turns an integer that overflows into a float. */
    private static function exactly(int|float $paise): self
    {
        if (is_float($paise)) {
            throw new \OverflowException('The amount is too large.');
        }
        return new self($paise);
    }
}
