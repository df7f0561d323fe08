<?php

declare(strict_types=1);

namespace Coax;

use Coax\Internal\Failure;

/**
 * A call that did not succeed. The class follows from the code.
 *
 * getMessage() describes the call, the answer, and whether the operation is undecided.
 * getCode() and $code are the service's code, which is empty if no answer came, or if the
 * answer is not the service's.
 */
abstract class CoaxError extends \RuntimeException
{
    /** @var string the service's code; see Code */
    public $code = '';
    /** @var string the same as getMessage() */
    public $message = '';

    /** The method and the endpoint, such as "POST renew". */
    public readonly string $call;
    /** The HTTP status; 0 if no answer came. */
    public readonly int $status;
    /** The service's own message, for people; its wording may change. */
    public readonly string $service_message;
    /** Identifies the request to support. */
    public readonly string $request_id;
    /** How often the request was sent. */
    public readonly int $attempts;
    /** The seconds that the service asks to wait; 0 if it does not. */
    public readonly int $retry_after;
    /**
     * An attempt of this call may have carried out the operation, or may still do so: call
     * again with the same key, later. Another key would be another operation, and could
     * be charged as well.
     */
    public readonly bool $undecided;

    /** @var array<string, string> a message for each invalid field */
    public readonly array $fields;
    /** What is missing in the wallet. */
    public readonly ?Amount $shortfall;
    public readonly ?Amount $wallet_balance;
    public readonly ?Amount $required_amount;
    /** The earlier operation of a DUPLICATE_REQUEST. */
    public readonly ?string $previous_transaction_id;
    /** The customer's other operation of an OPERATION_IN_PROGRESS; null if it is another operator's. */
    public readonly ?string $open_transaction_id;
    /** The service's clock, in Unix seconds, of a TIMESTAMP_EXPIRED. */
    public readonly ?int $server_time;
    /** The address that the service saw, of an IP_NOT_WHITELISTED. */
    public readonly ?string $ip;
    /** The operation's state, if it is known. */
    public readonly ?Operation $operation;
    /** All details of the answer. */
    public readonly ?Result $data;

    /** @internal */
    final public function __construct(Failure $of)
    {
        parent::__construct($of->describe());
        $this->code = $of->code;
        $this->call = $of->call;
        $this->status = $of->status;
        $this->service_message = $of->message;
        $this->request_id = $of->requestId;
        $this->attempts = $of->attempts;
        $this->retry_after = $of->retryAfter;
        $this->undecided = $of->undecided;
        $this->fields = $of->fields;
        $this->operation = $of->operation;
        $this->data = $of->data;
        $this->server_time = $of->serverTime();
        $this->shortfall = $this->amount('shortfall');
        $this->wallet_balance = $this->amount('wallet_balance');
        $this->required_amount = $this->amount('required_amount');
        $this->previous_transaction_id = $this->text('previous_transaction_id');
        $this->open_transaction_id = $of->code === Code::OPERATION_IN_PROGRESS ? $this->text('transaction_id') : null;
        $this->ip = $this->text('ip');
    }

    // A later version of the service may send other types under the same names; then the
    // property stays null, and data has the value.

    private function amount(string $name): ?Amount
    {
        $value = $this->data?->{$name};
        return $value instanceof Amount ? $value : null;
    }

    private function text(string $name): ?string
    {
        $value = $this->data?->{$name};
        return is_string($value) ? $value : null;
    }
}
