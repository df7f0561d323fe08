<?php

declare(strict_types=1);

namespace Coax\Internal;

use Coax\Amount;

/**
 * Reads JSON with exact amounts: a number with a decimal point never becomes a float.
 *
 * @internal
 */
final class Json
{
    /** Escapes are hidden from the search for the end of a string; JSON has no such control characters. */
    private const ESCAPES = ['\\\\' => "\x01", '\\"' => "\x02"];

    /** A number with a decimal point; strings are skipped. */
    private const DECIMAL = '/"[^"]*+"(*SKIP)(*FAIL)|-?[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?/';

    /**
     * Returns the value of a JSON text: objects as stdClass, arrays as lists, numbers
     * with at most two decimals as Amount, other decimals as their text. Returns null
     * if the text is not JSON.
     */
    public static function decode(string $text): mixed
    {
        // Checked before the text is changed: quoting makes some invalid texts valid.
        if (json_decode($text) === null) {
            return null;
        }
        // Decimals outside of strings are put into strings, which begin with a random
        // mark so that no string of the text can be taken for one of them.
        $mark = bin2hex(random_bytes(8)) . ':';
        $quoted = preg_replace(self::DECIMAL, '"' . $mark . '$0"', strtr($text, self::ESCAPES));
        if ($quoted === null) {
            return null;
        }
        $quoted = strtr($quoted, array_flip(self::ESCAPES));
        return self::unmark(json_decode($quoted, false, 512, JSON_BIGINT_AS_STRING), $mark);
    }

    private static function unmark(mixed $value, string $mark): mixed
    {
        if (is_string($value) && str_starts_with($value, $mark)) {
            return self::decimal(substr($value, strlen($mark)));
        }
        if (is_array($value)) {
            return array_map(static fn (mixed $item): mixed => self::unmark($item, $mark), $value);
        }
        if ($value instanceof \stdClass) {
            foreach (get_object_vars($value) as $name => $item) {
                $value->{$name} = self::unmark($item, $mark);
            }
        }
        return $value;
    }

    private static function decimal(string $text): Amount|string
    {
        try {
            return Amount::parse($text);
        } catch (\InvalidArgumentException) {
            return $text;
        }
    }
}
