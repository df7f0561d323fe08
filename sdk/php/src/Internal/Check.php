<?php

declare(strict_types=1);

namespace Coax\Internal;

use Coax\Code;

/**
 * Checks what a caller gives, before anything is sent.
 *
 * @internal
 */
final class Check
{
    /**
     * Returns the part of a base address before /api/v1, and whether its host is loopback.
     *
     * @return array{string, bool}
     */
    public static function baseUrl(string $text): array
    {
        $host = '(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)';
        if (!preg_match("#^((?i)https?)://$host(:[0-9]{1,5})?(/[!-~]*)?/api/v1/?$#D", $text, $part) || strpbrk($text, '?#@') !== false) {
            throw new \InvalidArgumentException('The base address is not one: write it as https://HOST/api/v1.');
        }
        $scheme = strtolower($part[1]);
        $name = trim($part[2], '[]');
        $loopback = strtolower($name) === 'localhost' || $name === '::1'
            || str_starts_with($name, '127.') && filter_var($name, FILTER_VALIDATE_IP) !== false;
        // Requests contain a key, a signature and customers' passwords. Plain HTTP is
        // allowed on loopback only, for development.
        if ($scheme !== 'https' && !$loopback) {
            throw new \InvalidArgumentException('The base address has to begin with https://.');
        }
        return [$scheme . '://' . $part[2] . ($part[3] ?? '') . ($part[4] ?? ''), $loopback];
    }

    /** Returns the absolute path of a file with certificates; empty if none is given. */
    public static function caFile(?string $path): string
    {
        if ($path === null || $path === '') {
            return '';
        }
        $text = is_file($path) && is_readable($path) ? file_get_contents($path) : false;
        if ($text === false) {
            throw new \InvalidArgumentException("The CA file $path cannot be read.");
        }
        if (!str_contains($text, '-----BEGIN CERTIFICATE-----')) {
            throw new \InvalidArgumentException("The CA file $path has no certificate in PEM format.");
        }
        return (string) realpath($path);
    }

    /** @throws \Coax\CoaxError */
    public static function idempotencyKey(string $call, string $key): void
    {
        if ($key === '') {
            throw (new Failure($call, code: Code::MISSING_IDEMPOTENCY_KEY, message:
                'An operation needs an idempotency key; make one, store it, and call with it. Nothing was sent.'))->error();
        }
        if (!preg_match('/^[A-Za-z0-9_.:-]{8,100}$/D', $key)) {
            throw (new Failure($call, code: Code::INVALID_IDEMPOTENCY_KEY, message:
                'An idempotency key has 8 to 100 characters from A-Z, a-z, 0-9, _ . : and -. Nothing was sent.'))->error();
        }
    }

    /**
     * Returns the bytes of a body. They are signed and sent in every attempt.
     *
     * @param array<string, mixed>|object|string $body
     *
     * @throws \Coax\CoaxError if a text is not in UTF-8
     */
    public static function body(string $call, #[\SensitiveParameter] array|object|string $body): Secret
    {
        if (is_string($body)) {
            if (!self::isUtf8($body)) {
                throw self::notUtf8($call, [])->error();
            }
            return new Secret($body);
        }
        if ($body instanceof \JsonSerializable) {
            $body = (object) $body->jsonSerialize();
        }
        $fields = is_array($body) ? $body : get_object_vars($body);
        foreach ($fields as $name => $value) {
            if ($value instanceof Secret) {
                $fields[$name] = $value = $value->reveal(); // of a result's customer
            }
            if (is_string($value) && !self::isUtf8($value)) {
                throw self::notUtf8($call, [(string) $name => 'It is not in UTF-8.'])->error();
            }
        }
        try {
            $flags = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION;
            return new Secret(json_encode((object) $fields, $flags));
        } catch (\JsonException $error) {
            throw new \InvalidArgumentException('The body cannot be written as JSON: ' . $error->getMessage());
        }
    }

    private static function isUtf8(#[\SensitiveParameter] string $text): bool
    {
        return preg_match('//u', $text) === 1;
    }

    /** @param array<string, string> $fields */
    private static function notUtf8(string $call, array $fields): Failure
    {
        $failure = new Failure($call, code: Code::VALIDATION_ERROR, message: 'Texts have to be in UTF-8. Nothing was sent.');
        $failure->fields = $fields;
        return $failure;
    }
}
