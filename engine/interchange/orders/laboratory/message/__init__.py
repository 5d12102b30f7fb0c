"""The HL7 message that an order becomes: OML^O21 or ORM^O01."""
