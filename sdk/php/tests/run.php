<?php

// Tests of what sdk/stories does not reach. Exits with 1 if one fails.

declare(strict_types=1);

use Coax\Amount;
use Coax\Client;
use Coax\Code;
use Coax\Internal\Check;
use Coax\Internal\Failure;
use Coax\Internal\Json;
use Coax\Internal\Options;
use Coax\Internal\Pause;
use Coax\Operation;

require __DIR__ . '/../autoload.php';
error_reporting(-1);
set_error_handler(static fn (int $level, string $text) => throw new ErrorException($text, 0, $level));

const BASE = 'https://coax.example/api/v1';
const KEY = 'cxk_00112233445566778899aabbccddeeff';
const SECRET = 'cxs_hunter2hunter2';

function same(mixed $want, mixed $got): void
{
    if ($got !== $want) {
        throw new RuntimeException('got ' . var_export($got, true) . '; want ' . var_export($want, true));
    }
}

/** @return Throwable what a function throws, which has to be of a class */
function thrown(string $class, callable $do): Throwable
{
    try {
        $do();
    } catch (Throwable $error) {
        same(true, is_a($error, $class) ?: $error->getMessage());
        return $error;
    }
    throw new RuntimeException("nothing was thrown; want $class");
}

/** Returns a value in every form that PHP can print. */
function dumps(mixed $value): string
{
    ob_start();
    var_dump($value);
    $text = (string) ob_get_clean();
    $text .= print_r($value, true) . var_export($value, true) . json_encode($value) . print_r((array) $value, true);
    try {
        $text .= serialize($value);
    } catch (Throwable $refused) {
        $text .= $refused;
    }
    return $text;
}

function operation(string $json): Operation
{
    return Operation::of(Json::decode($json));
}

function behaviour(): string
{
    return (string) file_get_contents(__DIR__ . '/../../BEHAVIOUR.md');
}

/** Checks that random numbers are in a range, and come near both of its ends. */
function spread(float $least, float $most, callable $random): void
{
    $drawn = array_map($random, array_fill(0, 200, null));
    $margin = ($most - $least) / 4;
    same([true, true, true, true], [
        min($drawn) >= $least, min($drawn) < $least + $margin, max($drawn) > $most - $margin, max($drawn) <= $most,
    ]);
}

/** Returns the address of a loopback port on which nothing listens. */
function closedPort(): string
{
    $server = stream_socket_server('tcp://127.0.0.1:0');
    $address = stream_socket_get_name($server, false);
    fclose($server);
    return $address;
}

$tests = [
    'amounts are parsed and printed exactly' => static function (): void {
        $texts = [
            '199.00' => 19900, '0.00' => 0, '-0.00' => 0, '0.05' => 5, '-0.05' => -5, '7' => 700, '7.5' => 750, '007.50' => 750,
            '90071992547409.93' => 9007199254740993, '92233720368547758.07' => PHP_INT_MAX, '-92233720368547758.08' => PHP_INT_MIN,
        ];
        foreach ($texts as $text => $paise) {
            $amount = Amount::parse((string) $text);
            same($paise, $amount->paise);
            same($paise, Amount::parse((string) $amount)->paise);
        }
        same('-0.05', (string) Amount::ofPaise(-5));
        same('"199.00"', json_encode(Amount::ofPaise(19900)));
    },
    'other texts are no amounts' => static function (): void {
        foreach (['', '.5', '1.', '1.005', '1e2', ' 1', "1\n", '+1', '--1', '1,00', '92233720368547758.08', str_repeat('9', 400)] as $text) {
            thrown(InvalidArgumentException::class, static fn () => Amount::parse($text));
        }
    },
    'amounts are added, subtracted and compared exactly' => static function (): void {
        same('0.30', (string) Amount::parse('0.10')->add(Amount::parse('0.20')));
        same('-0.10', (string) Amount::parse('0.10')->subtract(Amount::parse('0.20')));
        same(-1, Amount::parse('0.10')->compare(Amount::parse('0.20')));
        same(true, Amount::parse('2')->equals(Amount::parse('2.00')));
        same(true, Amount::parse('2') < Amount::parse('10'));
        thrown(OverflowException::class, static fn () => Amount::ofPaise(PHP_INT_MAX)->add(Amount::ofPaise(1)));
    },
    'JSON is read with exact amounts, and strings as they are' => static function (): void {
        $read = Json::decode('{"a":90071992547409.93,"b":"90071992547409.93","c":"x \"1.50\" \\\\","d":[-1.5,{"e":0.10}],'
            . '"f":1,"g":12345678901234567890,"h":1.005,"i":1.5e3,"1.50":2,"j":{},"k":[],"l":"\u0930 \\\\\" 2.50"}');
        same('90071992547409.93', (string) $read->a);
        same(9007199254740993, $read->a->paise);
        same('90071992547409.93', $read->b);
        same('x "1.50" \\', $read->c);
        same('-1.50', (string) $read->d[0]);
        same(10, $read->d[1]->e->paise);
        same(1, $read->f);
        same('12345678901234567890', $read->g);
        same('1.005', $read->h);
        same('1.5e3', $read->i);
        same(2, $read->{'1.50'});
        same([], (array) $read->j);
        same([], $read->k);
        same('र \\" 2.50', $read->l);
    },
    'what is not JSON is not read' => static function (): void {
        foreach (['', 'null', '<h1>1.50</h1>', '{"a":01.50}', '{1.50:2}', '{"a":1.5.0}', '{"a":1.50', "{\"a\":\"\xff\"}", '{"a":1.}'] as $text) {
            same(null, Json::decode($text));
        }
    },
    'a large text is read' => static function (): void {
        $text = '{"a":"' . str_repeat('\\"1.50,', 1_000_000) . '","b":1.50}';
        same('1.50', (string) Json::decode($text)->b);
    },
    'a result is readable by property and by key, and read-only' => static function (): void {
        $result = operation('{"status":"success","plan":{"id":"BASIC-1"},"amount":199,"new":{"x":[1,2]},"warnings":["A"]}');
        same('success', $result->status);
        same('success', $result['status']);
        same('BASIC-1', $result->plan->id);
        same('BASIC-1', $result['plan']['id']);
        same('199.00', (string) $result->amount);
        same([1, 2], $result->new->x);
        same(['A'], $result->warnings);
        same(null, $result->nothing);
        same([true, false, true], [isset($result->plan), isset($result->nothing), isset($result['plan'])]);
        same('{"status":"success","plan":{"id":"BASIC-1"},"amount":"199.00","new":{"x":[1,2]},"warnings":["A"]}', json_encode($result));
        thrown(LogicException::class, static fn () => $result->status = 'failed');
        thrown(LogicException::class, static function () use ($result): void {
            $result['status'] = 'failed';
        });
    },
    "a customer's password is readable by name and never printed" => static function (): void {
        $result = operation('{"customer":{"name":"Asha","password":"TfK7mRwq4Zpb"}}');
        same('TfK7mRwq4Zpb', $result->customer->password);
        same('TfK7mRwq4Zpb', $result['customer']['password']);
        $failure = new Failure('POST activate', 202, Code::PENDING_REVIEW);
        $failure->operation = $result;
        foreach ([$result, $result->customer, $result->customer->toArray(), iterator_to_array($result->customer), $failure->error()] as $value) {
            same(false, str_contains(dumps($value), 'TfK7'));
        }
        same('{"customer":{"name":"Asha","password":"[secret]"}}', json_encode($result));
        same('[secret]', unserialize(serialize($result))->customer->password);
        same('TfK7mRwq4Zpb', (clone $result)->customer->password);
    },
    'the secret is never printed' => static function (): void {
        $client = new Client(BASE, KEY, SECRET);
        same(false, str_contains(dumps($client), 'hunter2'));
        thrown(LogicException::class, static fn () => serialize($client));
        $errors = [
            thrown(InvalidArgumentException::class, static fn () => new Client('http://coax.example/api/v1', KEY, SECRET)),
            thrown(Coax\InvalidRequestError::class, static fn () => $client->activate(['password' => SECRET], '')),
            thrown(Coax\InvalidRequestError::class, static fn () => $client->activate(['password' => SECRET, 'full_name' => "\xff"], 'order-4711')),
        ];
        if (PHP_VERSION_ID >= 80200) { // SensitiveParameter
            foreach ($errors as $error) {
                same(false, str_contains($error . print_r($error, true) . print_r($error->getTrace(), true), 'hunter2'));
            }
        }
    },
    'a malformed address, key, secret or CA file is an error' => static function (): void {
        $bad = [
            '', 'coax.example', 'https://coax.example', 'https://coax.example/api/v2', 'http://coax.example/api/v1', 'ftp://coax.example/api/v1',
            BASE . '?a=b', BASE . '#a', 'https:///api/v1', 'https://u:p@coax.example/api/v1', BASE . "\n", 'https://coax .example/api/v1',
            'http://127.0.0.1.example/api/v1', 'https://coax.example/API/V1', 'http://localhost.example/api/v1',
        ];
        foreach ($bad as $address) {
            thrown(InvalidArgumentException::class, static fn () => new Client($address, KEY, SECRET));
        }
        foreach (['', "cxk\n", 'c xk', 'ключ'] as $text) {
            thrown(InvalidArgumentException::class, static fn () => new Client(BASE, $text, SECRET));
            thrown(InvalidArgumentException::class, static fn () => new Client(BASE, KEY, $text));
        }
        foreach (['/nowhere/ca.pem', __DIR__, __FILE__] as $file) {
            thrown(InvalidArgumentException::class, static fn () => new Client(BASE, KEY, SECRET, $file));
        }
    },
    'good addresses are accepted' => static function (): void {
        same(['https://coax.example', false], Check::baseUrl(BASE . '/'));
        same(['https://coax.example:8443/proxy', false], Check::baseUrl('HTTPS://coax.example:8443/proxy/api/v1'));
        same(['http://127.0.0.1:80', true], Check::baseUrl('http://127.0.0.1:80/api/v1'));
        same(['http://[::1]', true], Check::baseUrl('http://[::1]/api/v1'));
        same(['http://localhost', true], Check::baseUrl('http://localhost/api/v1'));
    },
    'invalid options are errors' => static function (): void {
        $bad = [
            ['timeouts' => 1], ['timeout' => 0], ['timeout' => -1], ['timeout' => NAN], ['timeout' => INF], ['timeout' => '60'], ['attempts' => 0],
            ['attempts' => 1.5], ['pause' => -0.1], ['wait_until_settled' => 1], ['on_attempt' => 'no such function'], ['clock' => 7], ['pause' => null],
        ];
        foreach ($bad as $options) {
            thrown(InvalidArgumentException::class, static fn () => new Client(BASE, KEY, SECRET, null, $options));
        }
        new Client(BASE, KEY, SECRET, options: ['pause' => 0, 'max_pause' => 1, 'attempts' => 1, 'clock' => 'time', 'on_attempt' => static fn () => 1]);
    },
    'invalid arguments of look-ups are errors' => static function (): void {
        $client = new Client(BASE, KEY, SECRET);
        thrown(InvalidArgumentException::class, static fn () => $client->subscription(['subscriber' => '100001']));
        thrown(InvalidArgumentException::class, static fn () => $client->transaction(['key' => 'order-4711']));
        thrown(InvalidArgumentException::class, static fn () => $client->awaitSettled('order-4711', 0));
    },
    'text that is not UTF-8 is an error' => static function (): void {
        $client = new Client(BASE, KEY, SECRET);
        $error = thrown(Coax\InvalidRequestError::class, static fn () => $client->renew(['plan_id' => "\xff"], 'order-4711'));
        same([Code::VALIDATION_ERROR, 0, 0, ['plan_id']], [$error->code, $error->status, $error->attempts, array_keys($error->fields)]);
        thrown(Coax\InvalidRequestError::class, static fn () => $client->renew("{\"plan_id\":\"\xff\"}", 'order-4711'));
        thrown(InvalidArgumentException::class, static fn () => $client->renew(['plan_id' => NAN], 'order-4711'));
    },
    'a body is serialised readably, a text is sent as it is' => static function (): void {
        same('{"full_name":"आशा / Söhne","n":1.0}', Check::body('', ['full_name' => 'आशा / Söhne', 'n' => 1.0])->reveal());
        same('{"plan_id":"X"}', Check::body('', (object) ['plan_id' => 'X'])->reveal());
        same('{}', Check::body('', [])->reveal());
        $customer = operation('{"customer":{"mobile":"9876543210","password":"TfK7mRwq4Zpb"}}')->customer;
        same('{"mobile":"9876543210","password":"TfK7mRwq4Zpb"}', Check::body('', $customer)->reveal());
        same('{"mobile":"9876543210","password":"TfK7mRwq4Zpb"}', Check::body('', $customer->toArray())->reveal());
        same('{ "a": 1 }', Check::body('', '{ "a": 1 }')->reveal());
    },
    'a connection that is never made is retried, and not undecided' => static function (): void {
        $seen = [];
        $options = ['pause' => 0.001, 'attempts' => 3, 'on_attempt' => static function (Coax\Attempt $attempt) use (&$seen): void {
            $seen[] = $attempt;
        }];
        $client = new Client('https://' . closedPort() . '/api/v1', KEY, SECRET, null, $options);
        $error = thrown(Coax\NoAnswerError::class, static fn () => $client->renew(['plan_id' => 'X'], 'order-4711'));
        same([false, 3, '', 0, ''], [$error->undecided, $error->attempts, $error->code, $error->status, $error->getCode()]);
        same([1, 2, 3], array_column($seen, 'number'));
        same([true, true, false], array_map(static fn ($a) => $a->pause !== null, $seen));
        same(false, $seen[0]->error === '');
    },
    'an error in the hook does not end the call' => static function (): void {
        $log = tempnam(sys_get_temp_dir(), 'coax');
        $before = ini_set('error_log', $log);
        $options = ['pause' => 0.001, 'attempts' => 2, 'on_attempt' => static fn () => throw new RuntimeException('the hook')];
        $client = new Client('http://' . closedPort() . '/api/v1', KEY, SECRET, null, $options);
        same(2, thrown(Coax\NoAnswerError::class, static fn () => $client->balance())->attempts);
        ini_set('error_log', (string) $before);
        same(2, substr_count((string) file_get_contents($log), 'the hook'));
        unlink($log);
    },
    'a server that accepts and never answers ends with the time-out, undecided' => static function (): void {
        $server = stream_socket_server('tcp://127.0.0.1:0');
        $address = stream_socket_get_name($server, false);
        $began = hrtime(true);
        $options = ['timeout' => 0.1, 'attempts' => 1];
        $plain = new Client("http://$address/api/v1", KEY, SECRET, null, $options);
        same(true, thrown(Coax\NoAnswerError::class, static fn () => $plain->renew(['plan_id' => 'X'], 'order-4711'))->undecided);
        // Over TLS the request is not sent before the handshake.
        $secure = new Client("https://$address/api/v1", KEY, SECRET, null, $options);
        same(false, thrown(Coax\NoAnswerError::class, static fn () => $secure->renew(['plan_id' => 'X'], 'order-4711'))->undecided);
        // Far below the default of 60 s, and above what a busy machine needs.
        same(true, (hrtime(true) - $began) / 1e9 < 20);
    },
    'pauses grow to their limit, and are random between half and all of their length' => static function (): void {
        $options = new Options(['pause' => 0.5, 'max_pause' => 3]);
        foreach ([1 => 0.5, 2 => 1.0, 3 => 2.0, 4 => 3.0, 2000 => 3.0] as $n => $longest) {
            spread($longest / 2, $longest, static fn (): float => Pause::growing($options, $n));
        }
    },
    'up to a tenth of Retry-After is added to it at random' => static function (): void {
        $exchange = (new ReflectionProperty(Client::class, 'exchange'))->getValue(new Client(BASE, KEY, SECRET));
        $pauseAfter = new ReflectionMethod($exchange, 'pauseAfter');
        $limited = new Failure('POST renew', 429, Code::RATE_LIMITED);
        $limited->retryAfter = 60;
        spread(60, 66, static fn (): float => $pauseAfter->invoke($exchange, $limited, 1));
    },
    'the defaults are those of BEHAVIOUR.md' => static function (): void {
        preg_match_all('/^\| `([a-z_]+)` \| ([^|]+) \| [^|]+ \|$/m', behaviour(), $rows, PREG_SET_ORDER);
        $want = [];
        foreach ($rows as [, $name, $text]) {
            $words = ['yes' => true, 'none' => null, "the system's" => null];
            $number = str_ends_with($text, ' s') ? (float) $text : (int) $text;
            $want[lcfirst(str_replace('_', '', ucwords($name, '_')))] = array_key_exists($text, $words) ? $words[$text] : $number;
        }
        $got = get_object_vars(new Options([]));
        ksort($want);
        ksort($got);
        same($want, $got);
    },
    'every code of BEHAVIOUR.md has its class' => static function (): void {
        preg_match_all('/^\| `([A-Za-z]+Error)` \| (.+) \|$/m', behaviour(), $rows, PREG_SET_ORDER);
        $seen = [Code::OK];
        foreach ($rows as [, $class, $codes]) {
            preg_match_all('/`([A-Z_]+)`/', $codes, $names);
            foreach ($names[1] as $code) {
                same("Coax\\$class", (new Failure('', 400, $code))->error()::class);
                $seen[] = $code;
            }
        }
        $known = array_values((new ReflectionClass(Code::class))->getConstants());
        sort($known);
        sort($seen);
        same($known, $seen);
    },
];

// PHP in WebAssembly cannot listen.
if (defined('WITHOUT_NETWORK')) {
    unset($tests['a server that accepts and never answers ends with the time-out, undecided']);
}

$failed = 0;
foreach ($tests as $name => $test) {
    try {
        $test();
    } catch (Throwable $error) {
        $failed++;
        echo "FAIL $name: {$error->getMessage()} at {$error->getFile()}:{$error->getLine()}\n{$error->getTraceAsString()}\n";
    }
}
echo count($tests) - $failed, " passed, $failed failed\n";
exit($failed > 0 ? 1 : 0);
