<?php

declare(strict_types=1);

namespace Coax\Internal;

/**
 * A text that no dump shows. It is not a property of the object, because var_export, an
 * array cast and serialize show private properties, and not in a closure, because
 * var_dump and print_r show the variables of closures.
 *
 * @internal
 */
final class Secret implements \JsonSerializable, \Stringable
{
    private const PLACEHOLDER = '[secret]';

    /** @var \WeakMap<self, string>|null */
    private static ?\WeakMap $texts = null;

    public function __construct(#[\SensitiveParameter] string $text)
    {
        self::$texts ??= new \WeakMap();
        self::$texts[$this] = $text;
    }

    /** Returns the text; after unserialize, which does not have it, the placeholder. */
    public function reveal(): string
    {
        return self::$texts[$this] ?? self::PLACEHOLDER;
    }

    public function __toString(): string
    {
        return self::PLACEHOLDER;
    }

    public function jsonSerialize(): string
    {
        return self::PLACEHOLDER;
    }

    /** @return array<string, string> */
    public function __serialize(): array
    {
        return [];
    }

    /** @param array<string, string> $data */
    public function __unserialize(array $data): void
    {
    }

    /** @return array<string, string> */
    public function __debugInfo(): array
    {
        return ['text' => self::PLACEHOLDER];
    }

    private function __clone()
    {
    }
}
