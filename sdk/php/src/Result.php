<?php

declare(strict_types=1);

namespace Coax;

use Coax\Internal\Secret;

/**
 * A read-only object of an answer, with the names of the wire: $result->status and
 * $result['status'] are the same. A name that it does not have is null. Nested objects
 * are results, arrays are lists, amounts are Amount, and everything else is as in JSON.
 *
 * A password is readable by its name, and redacted when the result is printed, dumped,
 * encoded, serialised or iterated.
 *
 * @implements \ArrayAccess<string, mixed>
 * @implements \IteratorAggregate<string, mixed>
 */
class Result implements \ArrayAccess, \IteratorAggregate, \JsonSerializable
{
    /** The names of amounts, for those that a proxy has rewritten without decimals. */
    private const AMOUNTS = [
        'amount', 'price', 'before', 'after', 'charged', 'wallet_balance', 'required_amount', 'shortfall',
    ];

    /** @param array<string, mixed> $values */
    final private function __construct(private array $values)
    {
    }

    /**
     * @internal
     * @param array<string, mixed> $more
     */
    final public static function of(#[\SensitiveParameter] \stdClass $object, array $more = []): static
    {
        $values = [];
        foreach (get_object_vars($object) as $name => $value) {
            $values[$name] = match (true) {
                $name === 'password' && is_string($value) => new Secret($value),
                is_int($value) && is_int($value * 100) && in_array($name, self::AMOUNTS, true) => Amount::ofPaise($value * 100),
                default => self::read($value),
            };
        }
        return new static(array_replace($values, $more));
    }

    private static function read(#[\SensitiveParameter] mixed $value): mixed
    {
        if ($value instanceof \stdClass) {
            return Result::of($value);
        }
        return is_array($value) ? array_map(self::read(...), $value) : $value;
    }

    /**
     * Returns a copy with another value.
     *
     * @internal
     */
    final public function with(string $name, #[\SensitiveParameter] mixed $value): static
    {
        return new static(array_replace($this->values, [$name => $value]));
    }

    /**
     * Returns the fields by name, nested ones as results, passwords redacted.
     *
     * @return array<string, mixed>
     */
    final public function toArray(): array
    {
        return $this->values;
    }

    final public function __get(string $name): mixed
    {
        $value = $this->values[$name] ?? null;
        return $value instanceof Secret ? $value->reveal() : $value;
    }

    final public function __isset(string $name): bool
    {
        return isset($this->values[$name]);
    }

    final public function __set(string $name, mixed $value): void
    {
        throw new \LogicException('A result is read-only.');
    }

    final public function __unset(string $name): void
    {
        throw new \LogicException('A result is read-only.');
    }

    final public function offsetGet(mixed $offset): mixed
    {
        return $this->__get((string) $offset);
    }

    final public function offsetExists(mixed $offset): bool
    {
        return $this->__isset((string) $offset);
    }

    final public function offsetSet(mixed $offset, mixed $value): void
    {
        throw new \LogicException('A result is read-only.');
    }

    final public function offsetUnset(mixed $offset): void
    {
        throw new \LogicException('A result is read-only.');
    }

    /** @return \Iterator<string, mixed> */
    final public function getIterator(): \Iterator
    {
        return new \ArrayIterator($this->values);
    }

    final public function jsonSerialize(): object
    {
        return (object) $this->values;
    }

    /** @return array<string, mixed> */
    final public function __debugInfo(): array
    {
        return $this->values;
    }
}
