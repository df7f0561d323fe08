<?php

declare(strict_types=1);

namespace Coax\Internal;

/**
 * The signature of a request, as in contract/vectors/README.md.
 *
 * @internal
 */
final class Signature
{
    /** Returns 64 lower-case hex digits. */
    public static function of(
        Secret $secret,
        string $method,
        string $path,
        string $query,
        #[\SensitiveParameter] string $body,
        string $timestamp,
        string $nonce,
    ): string {
        // strtoupper depends on the locale before PHP 8.2.
        $method = strtr($method, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ');
        $lines = [
            $method,
            $path,
            $method === 'POST' ? '' : self::canonicalQuery($query),
            $timestamp,
            $nonce,
            hash('sha256', $body),
        ];
        return hash_hmac('sha256', implode("\n", $lines), $secret->reveal());
    }

    /** Returns a query with every name and value decoded, encoded in one way, and sorted. */
    public static function canonicalQuery(string $raw): string
    {
        if ($raw === '') {
            return '';
        }
        $pairs = [];
        foreach (explode('&', $raw) as $part) {
            [$name, $value] = explode('=', $part, 2) + [1 => ''];
            $pairs[] = [rawurlencode(urldecode($name)), rawurlencode(urldecode($value))];
        }
        // Pairs are compared, not joined texts: '=' sorts after '-', '.', '%' and the digits.
        usort($pairs, static fn (array $a, array $b): int => strcmp($a[0], $b[0]) ?: strcmp($a[1], $b[1]));
        return implode('&', array_map(static fn (array $pair): string => $pair[0] . '=' . $pair[1], $pairs));
    }
}
